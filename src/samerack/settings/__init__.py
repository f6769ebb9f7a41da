"""All settings of the agent and the pipeline: one model in sections, from flags, environment, file and defaults.

Each module here has one section or a few; `all_settings` combines them, and `loading` reads them. Nothing is imported
here: options and help need no settings.
"""
