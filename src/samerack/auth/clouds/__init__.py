"""Gets tokens for SASL OAUTHBEARER from the identities that AWS, Azure and Google Cloud give to workloads.

No cloud library is needed: a token takes a few plain requests to addresses that are fixed or in the environment, and
for AWS a signature.
"""
