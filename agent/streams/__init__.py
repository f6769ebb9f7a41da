"""Plans for Kafka Streams applications that ask over HTTP: `POST /v1/streams/assign` (KIP-924's `ApplicationState`).

`question` and `answer` are the JSON, `context` and `making` the plan of one question; they run in a process of their
own (`worker`), which `workers` keeps and kills when it is late. `service` is what the web server calls.
"""
