"""Objects that users hold: compiled functions and modules, their calls, the errors they raise."""
