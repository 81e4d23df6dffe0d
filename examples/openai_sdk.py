"""A streamed chat with the official SDK: pip install openai, then python openai_sdk.py"""

from openai import OpenAI

client = OpenAI(base_url="http://127.0.0.1:11434/v1", api_key="none")
stream = client.chat.completions.create(
    model=client.models.list().data[0].id,  # or a name from `maxi-mlx list`
    messages=[{"role": "user", "content": "What is the capital of France?"}],
    max_tokens=50,
    temperature=0,
    stream=True,
)
for chunk in stream:
    print(chunk.choices[0].delta.content or "", end="", flush=True)
print()
