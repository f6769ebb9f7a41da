"""Turns measured traffic into bytes, money and findings, for the page, the API, the metrics and the commands."""
