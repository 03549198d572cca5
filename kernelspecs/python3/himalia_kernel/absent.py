"""Advice for the import of a module that is not there: a misspelling, or a package that is not installed."""

import sys

from himalia_kernel import guesses, offline

_PATHS = 30  # entries of sys.path
_SHOWN = 12

# Distributions that are not named as their module.
_DISTRIBUTIONS = {
    "bs4": "beautifulsoup4",
    "category_encoders": "category-encoders",
    "cv2": "opencv-python",
    "dateutil": "python-dateutil",
    "docx": "python-docx",
    "dotenv": "python-dotenv",
    "fitz": "pymupdf",
    "imblearn": "imbalanced-learn",
    "PIL": "pillow",
    "pptx": "python-pptx",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "umap": "umap-learn",
    "yaml": "pyyaml",
    "ydata_profiling": "ydata-profiling",
}
# Packages that code of models imports: none of these names is a misspelling of another one.
_KNOWN = frozenset(
    """
    altair arch arviz astropy autograd bokeh boto3 branca cartopy catboost causalml chardet contextily cupy cvxpy dask datasets
    datashader dash deap diffusers django docx2txt dowhy duckdb easyocr emoji ephem faiss fastapi fasttext fbprophet fiona flair flask
    folium fpdf fuzzywuzzy gensim geopandas geopy gluonts gradio graphviz gym gymnasium h3 h5py holidays holoviews hvplot imageio
    imblearn implicit jax jieba joypy kaleido keras langdetect langchain libpysal librosa lifelines lightgbm lime lux mapclassify
    missingno mlflow mlxtend mne modin mpld3 neuralprophet nltk numba nibabel openai optuna orjson osmnx pandas_profiling pandasql
    pandas_datareader pdfplumber pingouin plotnine pmdarima polars prophet psycopg2 pycaret pycountry pydeck pyod pyproj pymc pymysql
    pyreadr pyreadstat pyspark pytesseract pytorch_lightning pytz pywt quantstats rapidfuzz rasterio regex reportlab scrapy selenium
    sentence_transformers shap shapely simpy skforecast sktime snowflake spacy sqlalchemy squarify stanza statsforecast streamlit
    surprise sweetviz ta talib tables tensorflow textblob textstat tiktoken toolz torch torchvision transformers tsfresh tweepy
    unidecode vaderSentiment vaex wordcloud xarray xgboost xlrd xlwt yellowbrick yfinance PyPDF2 duckduckgo_search ujson lightfm
    """.split()
)
# What there may be instead, in the order in which it is named.
_NOTABLE = (
    *("numpy", "pandas", "scipy", "sklearn", "statsmodels", "matplotlib", "seaborn", "plotly", "pyarrow", "networkx", "sympy"),
    *("openpyxl", "PIL", "bs4", "lxml", "requests", "pypdf", "docx", "polars", "torch", "xgboost"),
)


def hint(wanted):
    """For the name of a module that is on no path."""
    present = modules_in(sys.path)
    if wanted in _DISTRIBUTIONS:
        return f"the module {wanted!r} comes with the package {_DISTRIBUTIONS[wanted]!r}, which is not installed{_way(wanted)}"
    same = [name for name in present if wanted in _KNOWN and name.casefold() == wanted.casefold().rstrip("0123456789")]
    near = same if wanted in _KNOWN else guesses.nearly(wanted, [*present, *sys.stdlib_module_names])
    if near:
        return f"did you mean {' or '.join(map(repr, near))}?"
    there = [name for name in _NOTABLE if name in present][:_SHOWN]
    installed = f". Installed are: {', '.join(there)}" if there else ""
    return f"{wanted!r} is not installed{_way(wanted)}{installed}"


def _way(wanted):
    """How it could be had."""
    if offline.is_offline():
        return "; this session has no network"
    if offline.index() is not None:
        return f"; `%pip install {_DISTRIBUTIONS.get(wanted, wanted)}` asks the package index of this session"
    return ""


def modules_in(places):
    """Names of modules that can be imported from directories, as far as their listings show."""
    found = {}
    for place in list(places)[:_PATHS]:
        if type(place) is not str:
            continue
        for name in guesses.listing(place or "."):
            stem = name.split(".")[0]
            if stem.isidentifier() and (name == stem or name.endswith((".py", ".so"))) and stem != "__pycache__":
                found[stem] = None
    return [name for name in found if not name.startswith("_")]
