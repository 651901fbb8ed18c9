"""Mathematical answers from untrusted text: read strictly, compared exactly, never evaluated as code."""
