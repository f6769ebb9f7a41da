"""The agent's HTTP server: metrics, probes, the page, the JSON API, and what other programs may post."""
