"""The commands: a module for each, and what they share. A command imports what is slow where it needs it."""
