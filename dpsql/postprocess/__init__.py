"""The sandbox, where whatever follows the noise is computed."""
