"""Interview answers about LLM serving engines, graded against what the real engines do.

This package folder is a shelf: it gives the six top-level folders their import name
(`inferproof.probes`, `inferproof.cli`, ...) through relative links, and imports nothing,
since the engine environments load it too.
"""

__version__ = "0.1.0"
