"""Programs as answers: the tests of a task, running them, and judging what came out."""
