"""What runs inside a sandbox: plain modules of the interpreter only, sent over a pipe, never installed.

Nothing in here is trusted by the judge. A program can reach and change all of it in its own process, and
gains nothing: expected values never enter its sandbox.
"""
