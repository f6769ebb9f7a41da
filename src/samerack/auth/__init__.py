"""How clients prove to brokers and services who they are: Kafka's keys, identities of clouds, tokens."""
