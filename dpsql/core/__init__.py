"""What every room stands on: errors with their place, SQL types, domains, exact losses, cancellation."""
