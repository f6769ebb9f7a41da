"""Consumer groups, their coordinator and the agent in virtual time: simulated days in fractions of a second."""
