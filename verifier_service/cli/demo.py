"""``verifier demo``."""


def demo() -> None:
    """The whole story on this machine."""
