"""The deck: what is asked and what is claimed. Imports nothing of ours."""
