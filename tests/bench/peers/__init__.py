"""The error of dpsql beside other libraries at equal epsilon."""
