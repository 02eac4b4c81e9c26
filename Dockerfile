# weft without a GPU:  docker build -t weft . && docker run --rm -it -v "$PWD":/here weft
FROM python:3.12-slim
# The compiler of the host, for whole CUDA programs.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends g++ \
    && rm -rf /var/lib/apt/lists/*
COPY pyproject.toml README.md LICENSE CHANGELOG.md /source/
COPY src /source/src
RUN pip install --no-cache-dir '/source[nvcc]' && rm -r /source
# Kernels are native code of the user who runs them: no root.
RUN useradd --create-home user
USER user
WORKDIR /here
CMD ["bash"]
