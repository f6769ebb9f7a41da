"""Leading one consumer group: being in it, planning for it, deciding about it, and telling what was done."""
