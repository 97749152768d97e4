"""One file per system: how it is started, and what its settings are."""
