"""A streamed chat with LiteLLM: pip install litellm, then python litellm_chat.py"""

from litellm import completion

stream = completion(
    model="openai/SmolLM2-135M-Instruct",  # openai/ and a name from `maxi-mlx list`
    api_base="http://127.0.0.1:11434/v1",
    api_key="none",
    messages=[{"role": "user", "content": "What is the capital of France?"}],
    max_tokens=50,
    temperature=0,
    stream=True,
)
for chunk in stream:
    print(chunk.choices[0].delta.content or "", end="", flush=True)
print()
