"""Probes: functions that drive a real engine and return what they observed. Standard library only."""
