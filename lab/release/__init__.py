"""Makes a release: what `scripts/release` does beside calling the builders. It is not shipped.

A release is made of a commit, in a copy: nothing that lies about in a checkout enters it, and the same commit gives the
same bytes again.
"""
