"""Plans for Kafka Streams applications that ask over HTTP: `POST /v1/streams/assign` (KIP-924's `ApplicationState`).

`question` reads what is asked; `context` and `making` make the plan in a process of their own, in which `worker` writes
the answer and which is killed when it is late. `service` is what the web server calls.
"""
