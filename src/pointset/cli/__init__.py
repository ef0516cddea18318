"""The command line, a file for each command. Nothing imports it, and it imports torch only when a command runs."""
