"""Adapters run by the real packages of the trainers, each in an environment of its own.

``make test-trainers`` makes the environments (``environments.toml``) and runs these tests in them. The
environments have the client's base install only; the service runs in the developers' environment. A package
that is missing fails its tests.
"""
