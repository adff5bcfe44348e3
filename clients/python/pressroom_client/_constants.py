"""Every number and wire name of the client, in one place. Seconds unless the name says otherwise."""

DEFAULT_URL = "http://127.0.0.1:3000"
DEFAULT_GRPC_PORT = 3001

# Timeouts: four phases of one attempt, and the whole call with its retries and pauses.
CONNECT_SECONDS = 5.0
READ_SECONDS = 30.0
WRITE_SECONDS = 10.0
POOL_SECONDS = 5.0
TOTAL_SECONDS = 60.0

# Retries: 2 more attempts, pauses 0.5 s, 1 s, 2 s ... never above 8 s, each shortened by up to a quarter.
RETRIES = 2
FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 8.0
JITTER = 0.25
RETRY_AFTER_LIMIT_SECONDS = 120.0
RETRIED_HTTP_STATUSES = frozenset({408, 429, 502, 503, 504})
RETRIED_GRPC_STATUSES = frozenset({"UNAVAILABLE", "RESOURCE_EXHAUSTED"})

# Connections.
MAX_CONNECTIONS = 100
GRPC_FIRST_RECONNECT_MS = 100  # below the first pause, so that a retry finds a fresh connection attempt
GRPC_LONGEST_RECONNECT_MS = 1000

# Headers, and in lower case gRPC metadata keys.
REQUEST_ID = "X-Request-Id"
REQUEST_TIMEOUT_MS = "X-Request-Timeout-Ms"
RETRY_COUNT = "X-Retry-Count"
HEADER_LENGTH = "Inference-Header-Content-Length"
GRPC_ERROR_KEY = "pressroom-error-bin"

# How much of an unreadable answer an error message quotes.
EXCERPT_CHARACTERS = 200
