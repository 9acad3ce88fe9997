"""Judgement: verdicts on claims, grades of answers."""
