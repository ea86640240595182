"""Where SQL runs: the engine that holds the private data, and the sandbox that holds none."""
