"""Ground of every room: errors with their place, SQL types, domains, exact losses, cancellation."""
