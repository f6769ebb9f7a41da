"""Plans by load: members are balanced by what their partitions weigh, and by what each can carry."""
