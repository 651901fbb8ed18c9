"""``python -m examples.train``."""

from examples.train.run import main

raise SystemExit(main())
