"""The LLM Surgeon: prune by the loss's curvature and let the remaining weights answer (van der Ouderaa et al., 2024).

    curvature   Fisher information of every matrix as one Kronecker pair (section 3.1)
    costs       what removing a weight, row or column costs (section 3.2)
    threshold   one cost for the whole network that meets the sparsity asked for (section 3.2)
    update      how the remaining weights change (section 3.3)
    shots       the four in turn, once or in several shots (section 3.4)
Letters: R outputs, C inputs of a matrix; A [C, C] and G [R, R] its Kronecker factors, n sequences of T tokens.
"""
