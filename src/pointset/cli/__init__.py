"""The command line: thin verbs. Nothing imports it, and it imports torch only when a verb runs."""
