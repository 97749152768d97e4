"""The same kill -9 on seven job systems, each as it comes. See README.md."""
