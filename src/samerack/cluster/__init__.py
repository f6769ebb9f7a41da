"""What brokers answer, and how they are asked: connections, group coordinators, metadata, consumer groups and racks."""
