"""The history of one consumer group, from the lines of all its members and of the feeder, and checks for errors in it.

All times are nanoseconds of the monotonic clock that the processes of one machine share.
"""
