"""What command line and session share: statements in, results and progress out."""
