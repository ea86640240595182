"""The values that pass between the stages, a file a stage."""
