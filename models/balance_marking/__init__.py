"""Balance-Marking: a message of many bits woven into generated text (Wang et al., "Towards codable watermarking for
injecting multi-bits information to LLMs", ICLR 2024).

At every position each message splits the vocabulary into available and unavailable tokens; the encoder leans towards
the available ones of its message, the decoder looks for the message most of whose tokens were available. `hashing` and
`config` come first; `proxy` and `partition` split the vocabulary; `encoder` marks; `votes`, `counting`, `significance`
and `decoder` read; `segments` and `correction` carry messages longer than one segment. Token ids in, numbers out: no
model, no tokenizer, no files.
"""
