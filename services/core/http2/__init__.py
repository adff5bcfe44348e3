"""gRPC's transport, HTTP/2, in the worker's own event loop: frames, header blocks, connections, calls, the server.

grpcio's asyncio server costs a quarter of a millisecond of CPU a call before a handler has run
(docs/serving-benchmarks.md), more than everything else a request needs here; this one costs a tenth of that. It takes
the same handlers and hands them the same context. Left out is what a unary inference server has no use for: server
push, priorities, compression of answers, HTTP/1.1 upgrade.
"""
