"""The same job once per system. These modules run in the environments of the systems, not in Holdfast's own."""
