"""What happened to one consumer group, from the lines of all its members and of the feeder, and what was wrong with it.

`python -m sandbox.history FILE...` checks files of such lines. All times are nanoseconds of the clock that the
processes of one machine share.
"""
