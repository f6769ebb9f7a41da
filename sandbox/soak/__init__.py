"""An hour of two agents over three groups under load, with replicas that move every minute: does anything grow?

`scripts/soak` runs it. Memory, descriptors and threads are the kernel's figures, lag is what brokers have and members
say they have not read; nothing takes the agent's word.
"""
