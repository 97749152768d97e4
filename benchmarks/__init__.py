"""Measurements that compare, rather than check."""
