"""The gated activation of Llama's layers: SwiGLU."""
