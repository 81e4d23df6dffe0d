"""A streamed message with the official SDK: pip install anthropic, then python anthropic_sdk.py"""

from anthropic import Anthropic

client = Anthropic(base_url="http://127.0.0.1:11434", api_key="none")
with client.messages.stream(
    model=client.models.list().data[0].id,  # or a name from `maxi-mlx list`
    messages=[{"role": "user", "content": "What is the capital of France?"}],
    max_tokens=50,
    extra_body={"temperature": 0},  # for which the SDK has no parameter any more
) as stream:
    for text in stream.text_stream:
        print(text, end="", flush=True)
print()
