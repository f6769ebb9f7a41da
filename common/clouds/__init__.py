"""Identities that a cloud gives to what runs in it, as tokens for SASL OAUTHBEARER: AWS, Azure, Google Cloud.

No cloud's library is needed: what a token takes is a few plain requests to addresses that the cloud names in the
environment, and for AWS a signature.
"""
