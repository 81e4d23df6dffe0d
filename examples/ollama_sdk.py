"""A streamed chat with Ollama's library: pip install ollama, then python ollama_sdk.py"""

from ollama import Client

client = Client("http://127.0.0.1:11434")
stream = client.chat(
    model="SmolLM2-135M-Instruct",  # or another name from `maxi-mlx list`
    messages=[{"role": "user", "content": "What is the capital of France?"}],
    options={"num_predict": 50, "temperature": 0},
    stream=True,
)
for part in stream:
    print(part.message.content, end="", flush=True)
print()
