"""A streamed chat with LangChain: pip install langchain-openai, then python langchain_chat.py"""

from langchain_openai import ChatOpenAI

model = ChatOpenAI(
    model="SmolLM2-135M-Instruct",  # or another name from `maxi-mlx list`
    base_url="http://127.0.0.1:11434/v1",
    api_key="none",
    max_tokens=50,
    temperature=0,
)
for chunk in model.stream("What is the capital of France?"):
    print(chunk.content, end="", flush=True)
print()
