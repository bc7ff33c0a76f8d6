//! Python bindings of twigcast-core: conversion only.
