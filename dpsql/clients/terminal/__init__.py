"""Parts shared by command line and session: statements in, results and progress out."""
