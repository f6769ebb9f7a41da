# The agent's image: `docker build --tag samerack .`; docs/image.md says what is in it and how to run it.
#
# BASE is any Debian or Ubuntu with a Python that finds itself as python3; name it with its digest to build the same image
# again. Of it the image has only what Python needs. BUILD_BASE is the same Python with pip, in which the packages are put
# together; of it nothing stays.
ARG BASE=python:3.13-slim-trixie
ARG BUILD_BASE=${BASE}

# --- What the agent needs, as locked ----------------------------------------------------------------------------------
FROM ${BUILD_BASE} AS dependencies
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore PYTHONDONTWRITEBYTECODE=1
RUN python3 -m venv --without-pip /opt/samerack
COPY scripts/locks/agent.lock /locks/
RUN python3 -m pip --python /opt/samerack/bin/python install --quiet --require-hashes --no-deps --only-binary :all: --no-compile \
      --requirement /locks/agent.lock
# Of OR-Tools only the flow solver and SCIP are used; the libraries under .libs are linked to each other and stay. Of Pygments' lexers
# tracebacks need Python's. No licence goes.
# Programs that packages bring go: what is left of bin is links to the interpreter.
RUN cd /opt/samerack/lib/python3*/site-packages \
 && find ortools -mindepth 1 -maxdepth 1 -type d ! -name graph ! -name linear_solver ! -name .libs ! -name __pycache__ -exec rm -rf {} + \
 && rm -f ortools/linear_solver/linear_solver_pb2.py ortools/linear_solver/python/model_builder* ortools/graph/python/linear_sum* \
      ortools/graph/python/max_flow* \
 && find pygments/lexers -type f ! -name __init__.py ! -name _mapping.py ! -name python.py ! -name special.py -delete \
 && find . -type d \( -name tests -o -name test \) -prune -exec rm -rf {} + \
 && find . -type f \( -name '*.pyi' -o -name '*.pxd' -o -name '*.h' -o -name '*.a' -o -name '*.lib' \) -delete \
 && find . -type f -perm /111 ! -name '*.so*' -exec chmod a-x {} + \
 && find /opt/samerack/bin -type f -delete
# Bytecode that is never held against its source: the file system is read-only, and the same sources give the same bytes.
# What goes into the image stands below /packages with the folders above it: folders that COPY has to make have its time.
ARG SOURCE_DATE_EPOCH=0
RUN PYTHONHASHSEED=0 python3 -m compileall -q --invalidation-mode unchecked-hash /opt/samerack/lib \
 && mkdir -p /packages/opt && cp --archive --link /opt/samerack /packages/opt/samerack \
 && find /packages -exec touch --no-dereference --date "@${SOURCE_DATE_EPOCH}" {} +

# --- samerack itself, as a wheel that is built without a network -------------------------------------------------------
FROM dependencies AS build
COPY scripts/locks/build.lock /locks/
RUN python3 -m venv --without-pip /opt/build \
 && python3 -m pip --python /opt/build/bin/python install --quiet --require-hashes --no-deps --only-binary :all: \
      --requirement /locks/build.lock
WORKDIR /source
COPY pyproject.toml hatch_build.py README.md LICENSE ./
COPY protocol protocol
COPY assignors assignors
COPY agent agent
COPY src src
ARG SOURCE_DATE_EPOCH=0
RUN python3 -m pip --python /opt/build/bin/python wheel --quiet --no-index --no-build-isolation --no-deps --wheel-dir /wheel . \
 && python3 -m pip --python /opt/samerack/bin/python install --quiet --no-index --no-deps --no-compile --root /own /wheel/*.whl \
 && cd /own/opt/samerack/lib/python3*/site-packages && rm -r samerack/pipeline samerack/plugins && cd /source \
 && PYTHONHASHSEED=0 python3 -m compileall -q --invalidation-mode unchecked-hash -s /own /own/opt/samerack/lib \
 && find /own -exec touch --no-dereference --date "@${SOURCE_DATE_EPOCH}" {} +

# --- What Python needs of the base: no shell, no package manager ---------------------------------------------------------
FROM ${BASE} AS system
COPY --from=dependencies /packages /
COPY scripts/image_system.py /
ARG SOURCE_DATE_EPOCH=0
RUN PYTHONHASHSEED=0 PYTHONDONTWRITEBYTECODE=1 python3 /image_system.py /system /opt/samerack \
 && find /system -exec touch --no-dereference --date "@${SOURCE_DATE_EPOCH}" {} +

# --- The image --------------------------------------------------------------------------------------------------------
FROM scratch
ARG BASE
ARG VERSION=0.1.0
ARG REVISION=
LABEL org.opencontainers.image.title="samerack" \
      org.opencontainers.image.description="Keeps Kafka consumer traffic in its own rack (availability zone)" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.base.name="${BASE}"
# Three layers: another version of samerack with the same dependencies brings the last, small one only.
COPY --from=system /system /
COPY --from=dependencies /packages /
COPY --from=build /own /
# One thread for linear algebra, of which planning has next to none: a pool for each core is only memory.
ENV PATH=/opt/samerack/bin:/usr/local/bin:/usr/bin LANG=C.UTF-8 PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 OPENBLAS_NUM_THREADS=1
USER 65532:65532
WORKDIR /
EXPOSE 9464
HEALTHCHECK --interval=30s --timeout=5s --start-period=20s CMD ["/opt/samerack/bin/samerack", "health"]
ENTRYPOINT ["/opt/samerack/bin/samerack"]
CMD ["run"]
